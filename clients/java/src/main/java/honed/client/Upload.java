package honed.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** A body that is sent as it is. type: of its content, such as {@code image/png}. */
public record Upload(byte[] content, String type) {
    /** By the first bytes of a file. */
    private static final Map<String, String> MEDIA_TYPES = Map.of(
        "\u0089PNG.*", "image/png",
        "\u00ff\u00d8.*", "image/jpeg",
        "RIFF.{4}WEBP", "image/webp",
        "RIFF.{4}WAVE", "audio/wav",
        "fLaC.*", "audio/flac");
    private static final int FIRST = 12;
    private static final String JSON = "application/json";

    /** A photo or a recording, of which x is the path or the bytes; null for what is neither. */
    static Upload of(Object x) throws IOException {
        byte[] content = x instanceof Path file ? Files.readAllBytes(file) : x instanceof byte[] bytes ? bytes : null;
        if (content == null) return null;
        String first = new String(content, 0, Math.min(FIRST, content.length), StandardCharsets.ISO_8859_1);
        return MEDIA_TYPES.entrySet().stream()
            .filter(each -> first.matches("(?s)" + each.getKey()))
            .findFirst()
            .map(each -> new Upload(content, each.getValue()))
            .orElseThrow(() -> new IllegalArgumentException(
                "photos are PNG, JPEG or WebP, recordings WAV or FLAC; this is neither"));
    }

    static Upload json(Object value) {
        return new Upload(utf8(Client.GSON.toJson(value)), JSON);
    }

    /** The file as a sample, in a form. about: its label and key. */
    Upload sample(Map<String, ?> about) {
        String boundary = UUID.randomUUID().toString();
        var form = new ByteArrayOutputStream();
        form.writeBytes(utf8(head(boundary, "file\"; filename=\"file", type)));
        form.writeBytes(content);
        form.writeBytes(utf8("\r\n" + head(boundary, "samples", JSON)));
        form.writeBytes(json(List.of(about)).content);
        form.writeBytes(utf8("\r\n--" + boundary + "--\r\n"));
        return new Upload(form.toByteArray(), "multipart/form-data; boundary=" + boundary);
    }

    private static String head(String boundary, String name, String type) {
        String disposition = "Content-Disposition: form-data; name=\"" + name + '"';
        return String.join("\r\n", "--" + boundary, disposition, "Content-Type: " + type, "", "");
    }

    private static byte[] utf8(String text) {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
            throw new IllegalArgumentException("a text holds half of a surrogate pair: it was cut within a character");
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
