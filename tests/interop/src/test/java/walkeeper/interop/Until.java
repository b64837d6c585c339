package walkeeper.interop;

/** Waits for what must come, with a limit that no machine should need. */
final class Until {
    private static final long PATIENCE_MS = 60_000;
    private static final long LOOK_MS = 20;

    private Until() {}

    interface Condition {
        boolean holds() throws Exception;
    }

    static void holds(Condition condition, String what) throws Exception {
        long limit = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > limit) {
                throw new AssertionError("not within " + PATIENCE_MS / 1000 + " s: " + what);
            }
            Thread.sleep(LOOK_MS);
        }
    }
}
