package walkeeper.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.apache.bookkeeper.net.BookieId;

/** A process walkeeper-bookie. */
final class WalkeeperBookie implements Bookie {
    private static final int PATIENCE_S = 60;

    private final BookieId id;
    private final List<String> command;
    private final Path data;
    private final Path log;
    private final int httpPort;
    private Process process;
    private CompletableFuture<String> said;

    /** `options` are settings beside those that every bookie of the tests has; what is named twice counts as named last. */
    WalkeeperBookie(String metadata, Path data, int port, String... options) {
        id = BookieId.parse("127.0.0.1:" + port);
        httpPort = Ports.free();
        this.data = data;
        log = data.resolveSibling(data.getFileName() + ".log");
        command = new ArrayList<>(List.of(executable(), "--init", "--metadata", metadata, "--listen", id.toString(),
                "--data", data.toString(), "--http", "127.0.0.1:" + httpPort));
        command.addAll(List.of("--frame-size-max", String.valueOf(Cluster.FRAME_SIZE_MAX), "--session-timeout", "3s",
                "--gc-interval", "1s", "--gc-hold-time", "0s", "--disk-read-only-percent", "0",
                "--disk-read-only-free", "32MiB", "--disk-writable-percent", "0", "--disk-writable-free", "48MiB",
                "--disk-recovery-free", "16MiB", "--memtable", "16MiB", "--lock-timeout", "20s"));
        command.addAll(Arrays.asList(options));
    }

    static String executable() {
        String given = System.getenv("WALKEEPER_BOOKIE");
        return given != null ? given : Cluster.repository().resolve(".venv/bin/walkeeper-bookie").toString();
    }

    @Override
    public BookieId id() {
        return id;
    }

    @Override
    public void launch() throws IOException {
        process = Children.start(
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())));
        process.getOutputStream().close();
        BufferedReader lines = process.inputReader(StandardCharsets.UTF_8);
        said = CompletableFuture.supplyAsync(() -> {
            try (lines) {
                return String.valueOf(lines.readLine());
            } catch (IOException wrong) {
                return wrong.toString();
            }
        });
    }

    @Override
    public void awaitReady() throws Exception {
        String line = said.get(PATIENCE_S, TimeUnit.SECONDS);
        if (!line.contains(" ready on ")) {
            process.waitFor(PATIENCE_S, TimeUnit.SECONDS);
            throw new IOException(id + " did not start, it said " + line + "\n" + log());
        }
    }

    @Override
    public void stop() throws Exception {
        int status = end();
        if (status != 0) {
            throw new IOException(id + " ended with status " + status + "\n" + log());
        }
    }

    /** SIGTERM; the exit status. */
    int end() throws Exception {
        process.destroy();
        if (!process.waitFor(PATIENCE_S, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IOException(id + " does not end\n" + log());
        }
        return process.exitValue();
    }

    boolean isRunning() {
        return process != null && process.isAlive();
    }

    void join() throws InterruptedException {
        process.waitFor();
    }

    @Override
    public void kill() throws Exception {
        if (process != null) {
            process.destroyForcibly().waitFor();
        }
    }

    @Override
    public void suspend() throws Exception {
        signal("STOP");
    }

    @Override
    public void resume() throws Exception {
        signal("CONT");
    }

    void signal(String name) throws IOException, InterruptedException {
        Children.signal(process, name);
    }

    private String http(String path, UnaryOperator<HttpRequest.Builder> method) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + httpPort + path))
                .version(HttpClient.Version.HTTP_1_1);
        HttpResponse<String> answer = HttpClient.newHttpClient()
                .send(method.apply(request).build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException(id + " answers " + answer.statusCode() + " " + answer.body());
        }
        return answer.body();
    }

    @Override
    public void setReadOnly(boolean readOnly) throws Exception {
        String asked = "{\"readOnly\": " + readOnly + "}";
        http("/api/v1/bookie/state/readonly", request -> request.PUT(HttpRequest.BodyPublishers.ofString(asked)));
    }

    /** The clients' that are open now. */
    int connections() throws Exception {
        return http("/metrics", HttpRequest.Builder::GET).lines()
                .filter(line -> line.startsWith("walkeeper_connections "))
                .mapToInt(line -> Integer.parseInt(line.split(" ")[1])).findFirst().orElseThrow();
    }

    @Override
    public boolean isWalkeeper() {
        return true;
    }

    @Override
    public long diskBytes() {
        return DiskSpace.of(data);
    }

    @Override
    public String log() {
        try {
            return Files.exists(log) ? Files.readString(log) : "";
        } catch (IOException wrong) {
            return wrong.toString();
        }
    }
}
