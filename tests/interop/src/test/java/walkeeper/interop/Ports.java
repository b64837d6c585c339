package walkeeper.interop;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;

/** Ports of loopback, below those that the kernel gives to connections: a bookie that is down must find its own again. */
final class Ports {
    private static final int FIRST = 12_000;
    private static final int COUNT = 20_000;
    private static final AtomicInteger NEXT = new AtomicInteger(ThreadLocalRandom.current().nextInt(COUNT));

    private Ports() {}

    static int free() {
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
