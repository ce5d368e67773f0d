package honed.client;

import java.io.IOException;
import java.util.List;
import java.util.stream.Collectors;

/** The daemon refused. docs/errors.md lists the codes. */
public final class HonedException extends IOException {
    private static final int TOLD = 5;
    private final transient Problem problem;
    private final int status;

    /** Where a body is wrong, and why. pointer: RFC 6901. */
    public record Fault(String pointer, String detail) {}

    /** The daemon's answer: RFC 9457. */
    record Problem(String code, String title, String detail, List<Fault> errors) {}

    HonedException(int status, Problem problem) {
        super(message(status, problem));
        this.status = status;
        this.problem = problem;
    }

    public int status() {
        return status;
    }

    /** Such as {@code not_found}; null if the answer had none. */
    public String code() {
        return problem.code();
    }

    public List<Fault> errors() {
        return problem.errors() == null ? List.of() : problem.errors();
    }

    private static String message(int status, Problem problem) {
        String title = problem.title() == null ? "HTTP " + status : problem.title();
        String told = problem.detail() == null ? title : problem.detail();
        if (problem.errors() == null) return told;
        return told + problem.errors().stream().limit(TOLD)
            .map(fault -> "; " + fault.pointer() + ": " + fault.detail())
            .collect(Collectors.joining());
    }
}
