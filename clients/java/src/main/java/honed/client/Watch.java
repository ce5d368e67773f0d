package honed.client;

import java.io.IOException;
import java.time.Duration;
import java.util.function.Function;

/**
 * A session that is always of the newest promoted model, swapped in a thread until it is closed.
 *
 * A model that cannot be loaded, or a daemon that is away, leaves the session as it is.
 */
public final class Watch<S> implements AutoCloseable {
    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final Duration PAUSE = Duration.ofSeconds(1);

    private final Model model;
    private final Function<byte[], S> make;
    private final Thread thread = new Thread(this::follow, "honed-watch");
    private S session;
    private String sha256;
    private Exception trouble;

    Watch(Model model, Function<byte[], S> make) throws IOException, InterruptedException {
        this.model = model;
        this.make = make;
        swap(model.newest(null, Duration.ZERO).orElseThrow());
        thread.setDaemon(true);
        thread.start();
    }

    /** Of the newest model. Whoever holds the one before may finish with it. */
    public synchronized S session() {
        return session;
    }

    /** Of the session's file. */
    public synchronized String sha256() {
        return sha256;
    }

    /** Why the last try to get a newer model failed; null if it did not. */
    public synchronized Exception trouble() {
        return trouble;
    }

    /** Wait until the session is another than that of this file; whether it is. */
    public synchronized boolean awaitChange(String known, Duration timeout) throws InterruptedException {
        long end = System.nanoTime() + timeout.toNanos();
        for (long left; sha256.equals(known) && (left = (end - System.nanoTime()) / 1_000_000) > 0;) wait(left);
        return !sha256.equals(known);
    }

    @Override
    public void close() {
        thread.interrupt();
    }

    private void follow() {
        try {
            while (true) {
                try {
                    var newer = model.newest(sha256(), WAIT);
                    if (newer.isPresent()) swap(newer.get());
                    note(null);
                } catch (IOException | RuntimeException error) { // whatever a runtime throws for a model
                    note(error);
                    Thread.sleep(PAUSE.toMillis());
                }
            }
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
    }

    private void swap(Model.ModelFile file) {
        S made = make.apply(file.content());
        synchronized (this) {
            session = made;
            sha256 = file.sha256();
            notifyAll();
        }
    }

    private synchronized void note(Exception error) {
        trouble = error;
    }
}
