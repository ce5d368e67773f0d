package honed.client;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.net.URLEncoder;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;

/** One model of the daemon. Methods throw {@link HonedException} if the daemon refuses. */
public final class Model {
    private static final Set<String> ENDED = Set.of("succeeded", "failed", "cancelled");
    private static final Duration POLL = Duration.ofMillis(500);
    /** How long the daemon of a job that is waited for may be away: it goes on with the job. */
    private static final Duration RESTART = Duration.ofSeconds(60);

    private final Client client;
    private final String path;
    private volatile JsonObject described;

    /**
     * What a version says of one instance; docs/prediction.md.
     *
     * @param label a class's name or number; JSON's null for regression
     * @param spans of a text, and boxes of a photo: lists, of models that find these
     * @param score of a model that tells anomalies, whose threshold is null before a job has set one
     * @param id of the sample, if it was kept
     */
    public record Prediction(
        JsonElement label, Double probability, JsonElement probabilities, JsonElement embedding, JsonElement values,
        JsonElement spans, JsonElement boxes, Double score, Double threshold, Boolean anomaly, int version, Long id) {}

    /** A stored sample, without its content. */
    public record Sample(long id, String key, String split, JsonElement label) {}

    /** A training run. version: null unless it made one. */
    public record Job(long id, String state, Integer version) {}

    /** An exported inference model. */
    public record Version(int version, String sha256, List<String> aliases) {}

    /** A version's file. */
    public record ModelFile(byte[] content, String sha256) {}

    private record Predictions(List<Prediction> predictions, int version, List<Long> ids) {}

    private record Added(List<Long> ids) {}

    Model(Client client, String name) {
        this.client = client;
        this.path = "/v1/models/" + URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Signature, settings and counts of samples, as they are now. */
    public JsonObject describe() throws IOException, InterruptedException {
        described = client.get(path).getAsJsonObject();
        return described;
    }

    /**
     * What the promoted version says of one instance.
     *
     * @param x the only input, a Map of inputs by name, a text, or the Path or bytes of a photo or a recording
     */
    public Prediction predict(Object x) throws IOException, InterruptedException {
        return predict(x, false);
    }

    /** keep: store it as a sample without a label; its id is in the answer, for {@link #label}. */
    public Prediction predict(Object x, boolean keep) throws IOException, InterruptedException {
        String query = keep ? "?keep=true" : "";
        Upload file = Upload.of(x);
        Predictions found =
            client.ask("POST", path + "/predict" + query, file == null ? instance(x) : file, Predictions.class);
        Prediction first = found.predictions().get(0);
        Long id = found.ids() == null ? null : found.ids().get(0);
        return new Prediction(
            first.label(), first.probability(), first.probabilities(), first.embedding(), first.values(),
            first.spans(), first.boxes(), first.score(), first.threshold(), first.anomaly(), found.version(), id);
    }

    /**
     * Store a sample; x: as for {@link #predict}.
     *
     * @param label a class's name or number, or the values; null for none
     * @param key the app's own id of it, or null
     * @return its id; empty if the model has it already
     */
    public Optional<Long> add(Object x, Object label, String key) throws IOException, InterruptedException {
        Upload file = Upload.of(x);
        Map<String, Object> sample = new HashMap<>(file == null ? instance(x) : Map.of());
        if (label != null) sample.put("label", sent(label));
        if (key != null) sample.put("key", key);
        Object body = file == null ? sample : file.sample(sample);
        List<Long> ids = client.ask("POST", path + "/samples", body, Added.class).ids();
        return ids == null ? Optional.empty() : ids.stream().findFirst();
    }

    /** Label a stored sample; null takes the label away. */
    public Sample label(long sample, Object label) throws IOException, InterruptedException {
        Map<String, Object> body = Collections.singletonMap("label", sent(label)); // Map.of takes no null
        return client.ask("PATCH", path + "/samples/" + sample, body, Sample.class);
    }

    /** Queue a job with these hyperparameters. */
    public Job train(Map<String, ?> hyperparameters) throws IOException, InterruptedException {
        return client.ask("POST", path + "/jobs", hyperparameters, Job.class);
    }

    /** Wait until a job has ended, however it ends; the daemon may restart meanwhile. */
    public Job await(Job job) throws IOException, InterruptedException {
        Job now = job;
        long seen = System.nanoTime();
        while (!ENDED.contains(now.state())) {
            Thread.sleep(POLL.toMillis());
            try {
                now = client.ask("GET", "/v1/jobs/" + job.id(), null, Job.class);
                seen = System.nanoTime();
            } catch (IOException away) {
                boolean isLost = System.nanoTime() - seen > RESTART.toNanos();
                if (isLost || away instanceof HonedException) throw away;
            }
        }
        return now;
    }

    /** The version that apps get. */
    public Version latest() throws IOException, InterruptedException {
        return client.ask("GET", path + "/latest", null, Version.class);
    }

    /**
     * Have the newest model in a file, which is replaced in one move.
     *
     * @param wait how long the daemon waits for a newer one if the file is the newest, at most 300 s
     * @return whether it was replaced
     */
    public boolean fetch(Path file, Duration wait) throws IOException, InterruptedException {
        Optional<ModelFile> found = newest(Files.exists(file) ? sha256(Files.readAllBytes(file)) : null, wait);
        if (found.isEmpty()) return false;
        Path part = file.resolveSibling("." + file.getFileName() + "." + ProcessHandle.current().pid() + ".partial");
        Files.write(part, found.get().content());
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        return true;
    }

    /** The newest model's file; empty if its SHA-256 is the known one. known: or null. */
    public Optional<ModelFile> newest(String known, Duration wait) throws IOException, InterruptedException {
        String query = known == null || wait.isZero() ? "" : "?wait=" + wait.toSeconds();
        Map<String, String> headers = known == null ? Map.of() : Map.of("If-None-Match", '"' + known + '"');
        HttpResponse<byte[]> answer = client.send("GET", path + "/latest/model.onnx" + query, null, headers);
        if (answer.statusCode() != 200) return Optional.empty();
        String digest = sha256(answer.body());
        String tag = answer.headers().firstValue("ETag").orElse("none");
        if (!tag.equals('"' + digest + '"')) {
            throw new IOException("the model's SHA-256 is " + digest + ", its ETag " + tag);
        }
        return Optional.of(new ModelFile(answer.body(), digest));
    }

    /**
     * Keep a session of the newest model, swapped in a thread until it is closed.
     *
     * @param make makes the session of the file's bytes, such as an OrtSession
     */
    public <S> Watch<S> watch(Function<byte[], S> make) throws IOException, InterruptedException {
        return new Watch<>(this, make);
    }

    private Map<String, Object> instance(Object x) throws IOException, InterruptedException {
        return x instanceof String ? Map.of("text", x) : Map.of("inputs", inputs(x));
    }

    private Object inputs(Object x) throws IOException, InterruptedException {
        if (x instanceof Map<?, ?>) return x;
        List<String> names = known().getAsJsonArray("inputs").asList().stream()
            .map(each -> each.getAsJsonObject().get("name").getAsString())
            .toList();
        if (names.size() != 1) {
            throw new IllegalArgumentException("the model takes " + String.join(", ", names) + ": give a Map of these");
        }
        return Map.of(names.get(0), x);
    }

    /** A number that is given as text is one for a model whose classes have no names. */
    private Object sent(Object label) throws IOException, InterruptedException {
        if (!(label instanceof String text) || !text.matches("[0-9]+")) return label;
        return known().getAsJsonObject("target").get("classes").isJsonNull() ? Long.valueOf(text) : label;
    }

    private JsonObject known() throws IOException, InterruptedException {
        return described == null ? describe() : described;
    }

    private static String sha256(byte[] content) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
        } catch (NoSuchAlgorithmException error) { // every Java platform has it
            throw new AssertionError(error);
        }
    }
}
