package walkeeper.interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;

/** Ports of loopback. */
final class Ports {
    private Ports() {}

    static int free() {
        try (ServerSocket held = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return held.getLocalPort();
        } catch (IOException wrong) {
            throw new UncheckedIOException(wrong);
        }
    }
}
