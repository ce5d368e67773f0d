import com.sun.net.httpserver.HttpServer;
import honed.client.Client;
import honed.client.HonedException;
import honed.client.Model;
import honed.client.Watch;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Against the daemon of HONED_URL and HONED_TOKEN, which has the model bell; tests/clients/test_java.py runs it. */
public class ClientTest {
    static final float[] X = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
    static final Model BELL = new Client().model("bell");

    public static void main(String[] arguments) throws Exception {
        predictsKeepsAndCorrects();
        addsOnce();
        addsTexts();
        addsAndPredictsPhotos(Path.of(arguments[1]));
        tellsWhatIsRefused();
        fetchesOnlyWhatIsNewer(Path.of(arguments[0]));
        swapsTheSession();
        waitsForADaemonThatIsAway();
        System.out.println("passed");
    }

    static void predictsKeepsAndCorrects() throws Exception {
        Model.Prediction found = BELL.predict(X, true);
        check(found.probability() > 0 && found.probabilities().getAsJsonArray().size() == 3, found);
        check(BELL.label(found.id(), "2").label().getAsInt() == 2, found);
        check(BELL.label(found.id(), null).label().isJsonNull(), found);
        check(BELL.predict(Map.of("x", X)).id() == null, "not kept");
    }

    static void addsOnce() throws Exception {
        float[] x = new float[8];
        Arrays.fill(x, 0.375f);
        check(BELL.add(x, 1, "java").isPresent(), "new");
        check(BELL.add(x, 1, "java").isEmpty(), "known");
    }

    static void addsTexts() throws Exception {
        Model notes = new Client().model("notes");
        check(notes.add("see you soon", null, "java").isPresent(), "new");
        check(notes.add("see you soon", null, "java").isEmpty(), "known");
        check(notes.describe().getAsJsonObject("samples").get("train").getAsInt() <= 1, "one text");
        try {
            notes.add("see you \ud83d", null, "cut");
            check(false, "no error");
        } catch (IllegalArgumentException error) {
            check(error.getMessage().contains("surrogate pair"), error);
        }
    }

    static void addsAndPredictsPhotos(Path photo) throws Exception {
        Model seen = new Client().model("seen");
        check(seen.add(photo, "bright", "photo-ü").isPresent(), "new");
        check(seen.add(Files.readAllBytes(photo), "bright", "photo-ü").isEmpty(), "known");
        Model.Prediction found = seen.predict(photo);
        check(found.label().equals(seen.predict(Files.readAllBytes(photo)).label()), found);
        try {
            seen.predict(new byte[] {1, 2});
            check(false, "no error");
        } catch (IllegalArgumentException error) {
            check(error.getMessage().contains("PNG"), error);
        }
    }

    static void tellsWhatIsRefused() throws Exception {
        try {
            BELL.predict(new float[] {1});
            check(false, "no error");
        } catch (HonedException error) {
            check(error.status() == 422 && error.code().equals("invalid_input"), error);
            check(error.getMessage().contains("/inputs/x"), error);
        }
        try {
            new Client("http://127.0.0.1:1", null).get("/v1/models");
            check(false, "no error");
        } catch (ConnectException error) {
            check(error.getMessage().equals("no daemon answers at http://127.0.0.1:1"), error);
        }
    }

    static void fetchesOnlyWhatIsNewer(Path folder) throws Exception {
        Path file = folder.resolve("bell.onnx");
        check(BELL.fetch(file, Duration.ZERO), "first");
        check(!BELL.fetch(file, Duration.ofSeconds(1)), "again");
        int version = promoteAnother();
        check(BELL.fetch(file, Duration.ofSeconds(60)), "newer");
        check(BELL.latest().version() == version && Files.size(file) > 0, version);
    }

    static void swapsTheSession() throws Exception {
        try (Watch<Integer> live = BELL.watch(Arrays::hashCode)) {
            String known = live.sha256();
            int before = live.session();
            promoteAnother();
            check(live.awaitChange(known, Duration.ofSeconds(60)), live.trouble());
            check(live.session() != before, known);
        }
    }

    static void waitsForADaemonThatIsAway() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        var timer = Executors.newSingleThreadScheduledExecutor();
        var later = timer.schedule(() -> {
            HttpServer back = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
            byte[] told = "{\"id\": 1, \"state\": \"failed\"}".getBytes();
            back.createContext("/v1/jobs/1", asked -> {
                asked.sendResponseHeaders(200, told.length);
                asked.getResponseBody().write(told);
                asked.close();
            });
            back.start();
            return back;
        }, 2, TimeUnit.SECONDS);
        Model away = new Client("http://127.0.0.1:" + port, null).model("away");
        check(away.await(new Model.Job(1, "running", null)).state().equals("failed"), port);
        later.get().stop(0);
        timer.shutdown();
    }

    static int promoteAnother() throws Exception {
        Model.Job job = BELL.await(BELL.train(Map.of("epochs", 1, "ignore_policy", true)));
        check(job.state().equals("succeeded"), job);
        return Objects.requireNonNull(job.version());
    }

    static void check(boolean holds, Object told) {
        if (!holds) throw new AssertionError(told);
    }
}
