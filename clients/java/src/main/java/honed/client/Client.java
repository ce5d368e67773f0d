package honed.client;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;

/** Asks one daemon. Safe to use from several threads. */
public final class Client {
    static final Gson GSON = new GsonBuilder().serializeNulls().create();
    private static final String DEFAULT_URL = "http://127.0.0.1:8471";
    /** The check of a large model takes minutes; a wait for a newer one is longer than most answers. */
    private static final Duration TIMEOUT = Duration.ofMinutes(10);
    private static final int NOT_MODIFIED = 304;

    private final String url;
    private final String token;
    /** Without a proxy, which has no business between an app and its device. */
    private final HttpClient http = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1)
        .proxy(HttpClient.Builder.NO_PROXY)
        .connectTimeout(Duration.ofSeconds(5))
        .build();

    /** The daemon and the token that HONED_URL and HONED_TOKEN name; by default port 8471 of this machine. */
    public Client() {
        this(System.getenv().getOrDefault("HONED_URL", DEFAULT_URL), System.getenv("HONED_TOKEN"));
    }

    /** token: null to send none. */
    public Client(String url, String token) {
        this.url = url.replaceAll("/+$", "");
        this.token = token;
    }

    /** A model by its name; it is asked about when it is used. */
    public Model model(String name) {
        return new Model(this, name);
    }

    /** The JSON answer to a GET of any route. */
    public JsonElement get(String path) throws IOException, InterruptedException {
        return GSON.fromJson(text(send("GET", path, null, Map.of())), JsonElement.class);
    }

    /**
     * Any request of the API.
     *
     * @param body what Gson writes as JSON, or an {@link Upload}; null for none
     * @throws HonedException if the daemon refuses
     * @throws ConnectException if no daemon answers
     */
    public HttpResponse<byte[]> send(String method, String path, Object body, Map<String, String> headers)
            throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).timeout(TIMEOUT);
        if (token != null) request.header("Authorization", "Bearer " + token.strip());
        Upload sent = body == null || body instanceof Upload ? (Upload) body : Upload.json(body);
        if (sent != null) request.header("Content-Type", sent.type());
        headers.forEach(request::header);
        request.method(method, sent == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(sent.content()));
        HttpResponse<byte[]> answer = answerTo(request.build());
        if (answer.statusCode() < 300 || answer.statusCode() == NOT_MODIFIED) return answer;
        throw new HonedException(answer.statusCode(), problem(answer));
    }

    private HttpResponse<byte[]> answerTo(HttpRequest request) throws IOException, InterruptedException {
        try {
            return http.send(request, BodyHandlers.ofByteArray());
        } catch (ConnectException error) { // whose message is null
            throw (IOException) new ConnectException("no daemon answers at " + url).initCause(error);
        }
    }

    <T> T ask(String method, String path, Object body, Class<T> kind) throws IOException, InterruptedException {
        return GSON.fromJson(text(send(method, path, body, Map.of())), kind);
    }

    private static HonedException.Problem problem(HttpResponse<byte[]> answer) {
        boolean isJson = answer.headers().firstValue("Content-Type").orElse("").contains("json");
        return GSON.fromJson(isJson ? text(answer) : "{}", HonedException.Problem.class);
    }

    private static String text(HttpResponse<byte[]> answer) {
        return new String(answer.body(), StandardCharsets.UTF_8);
    }
}
