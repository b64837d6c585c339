package walkeeper.interop;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Ports of loopback, below those that the kernel gives to connections: a bookie that is down must find its own again. Each JVM of a run has its own, and
 * gives each once: one that was given and is not yet listened on looks free.
 */
public final class Ports {
    private static final int COUNT = 5_000;
    private static final int FIRST = 12_000 + COUNT * (Integer.getInteger("fork", 0) % 4);
    private static final AtomicInteger NEXT = new AtomicInteger(ThreadLocalRandom.current().nextInt(COUNT));

    private Ports() {}

    public static int free() {
        for (int tried = 0; tried < COUNT; tried++) {
            int port = FIRST + Math.floorMod(NEXT.getAndIncrement(), COUNT);
            try (ServerSocket held = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return held.getLocalPort();
            } catch (IOException taken) {
                continue;
            }
        }
        throw new IllegalStateException("no port is free");
    }
}
