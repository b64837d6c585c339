package walkeeper.interop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Processes that end with this JVM, however it ends. The kernel watches the thread that made a process: one thread makes all of them and lives as long
 * as the JVM.
 */
final class Children {
    private static final ExecutorService MAKER = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "maker of processes");
        thread.setDaemon(true);
        return thread;
    });

    private Children() {}

    static Process start(ProcessBuilder builder) throws IOException {
        List<String> command = new ArrayList<>(List.of("setpriv", "--pdeathsig", "KILL"));
        command.addAll(builder.command());
        builder.command(command);
        try {
            return MAKER.submit(builder::start).get();
        } catch (ExecutionException wrong) {
            throw new IOException(String.join(" ", command), wrong.getCause());
        } catch (InterruptedException wrong) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", wrong);
        }
    }

    static void signal(Process process, String name) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-" + name, String.valueOf(process.pid())).inheritIO().start().waitFor();
    }
}
