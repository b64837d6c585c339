package walkeeper.interop;

import java.util.concurrent.TimeUnit;
import org.junit.AssumptionViolatedException;
import org.junit.Rule;
import org.junit.rules.RuleChain;
import org.junit.rules.TestRule;
import org.junit.rules.TestWatcher;
import org.junit.rules.Timeout;
import org.junit.runner.Description;

/** A limit for every test, and the bookies' logs beside a failure. */
public abstract class InteropTest {
    private static final int LIMIT_S = 150;

    /** The cluster of this class. */
    abstract Cluster cluster();

    @Rule
    public final TestRule rules = RuleChain.outerRule(new TestWatcher() {
        @Override
        protected void failed(Throwable wrong, Description test) {
            System.out.println("#### " + test.getDisplayName() + ": " + wrong + "\n" + cluster().logs());
            afterFailure();
        }

        @Override
        protected void skipped(AssumptionViolatedException reason, Description test) {
            System.out.println("#### " + test.getDisplayName() + " skipped: " + reason.getMessage());
        }
    }).around(Timeout.builder().withTimeout(limitSeconds(), TimeUnit.SECONDS)
            .withLookingForStuckThread(true).build());

    void afterFailure() {}

    int limitSeconds() {
        return LIMIT_S;
    }
}
