package walkeeper.interop;

import org.junit.runner.RunWith;
import org.junit.runners.Parameterized;
import org.junit.runners.Parameterized.Parameter;
import org.junit.runners.Parameterized.Parameters;

/** A class of tests that run once in each protocol. */
@RunWith(Parameterized.class)
public abstract class ProtocolTest extends InteropTest {
    @Parameter
    public Protocol protocol;

    @Parameters(name = "{0}")
    public static Protocol[] cases() {
        return Protocol.values();
    }
}
