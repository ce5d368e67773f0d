import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;

/**
 * Keeps FILE equal to the newest promoted version of MODEL, and predicts after each change.
 *
 * HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… java FetchAndPredict.java MODEL FILE INPUTS.json [TIMES]
 */
public class FetchAndPredict {
    static final int WAIT_S = 60;
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public static void main(String[] arguments) throws InterruptedException {
        String model = "/v1/models/" + arguments[0];
        Path file = Path.of(arguments[1]);
        Path inputs = Path.of(arguments[2]);
        int left = arguments.length > 3 ? Integer.parseInt(arguments[3]) : -1;
        while (left != 0) {
            try {
                String tag = fetch(model, file);
                if (tag == null) continue;
                System.out.println("fetched " + tag);
                System.out.println(predict(model, inputs));
                left--;
            } catch (IOException error) {
                System.err.println("no answer (" + error + "); trying again");
                Thread.sleep(1000);
            }
        }
    }

    /** Waits for a model that differs from the file. Returns its tag, null if there is none yet. */
    static String fetch(String model, Path file) throws IOException, InterruptedException {
        Path tagFile = file.resolveSibling(file.getFileName() + ".etag");
        Path part = file.resolveSibling(file.getFileName() + ".part");
        boolean has = Files.exists(file) && Files.exists(tagFile);
        HttpRequest request = request(model + "/latest/model.onnx?wait=" + WAIT_S)
            .header("If-None-Match", has ? Files.readString(tagFile) : "\"\"")
            .build();
        HttpResponse<byte[]> answer = CLIENT.send(request, BodyHandlers.ofByteArray());
        if (answer.statusCode() == 304) return null;
        if (answer.statusCode() != 200) throw new IOException(new String(answer.body()));
        Files.write(part, answer.body());
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        String tag = answer.headers().firstValue("ETag").orElseThrow();
        Files.writeString(tagFile, tag);
        return tag;
    }

    static String predict(String model, Path inputs) throws IOException, InterruptedException {
        HttpRequest request = request(model + "/predict")
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofFile(inputs))
            .build();
        HttpResponse<String> answer = CLIENT.send(request, BodyHandlers.ofString());
        if (answer.statusCode() != 200) throw new IOException(answer.body());
        return answer.body();
    }

    static HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(System.getenv("HONED_URL") + path))
            .timeout(Duration.ofSeconds(WAIT_S + 30))
            .header("Authorization", "Bearer " + System.getenv("HONED_TOKEN"));
    }
}
