package walkeeper.interop;

import java.util.Random;

/** What the tests of a run choose by chance: another each time, and again by -Dseed, which the run prints. */
final class Seed {
    private static final long SEED = seed();

    private Seed() {}

    private static long seed() {
        String given = System.getProperty("seed", "");
        return given.isEmpty() ? System.nanoTime() : Long.parseLong(given);
    }

    static Random random() {
        System.out.println("seed " + SEED);
        return new Random(SEED);
    }
}
