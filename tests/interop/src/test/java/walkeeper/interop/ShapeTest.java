package walkeeper.interop;

import java.util.ArrayList;
import java.util.List;
import org.junit.AfterClass;
import org.junit.Before;
import org.junit.runner.RunWith;
import org.junit.runners.Parameterized;
import org.junit.runners.Parameterized.Parameter;
import org.junit.runners.Parameterized.Parameters;

/**
 * A class of tests that run once in each protocol on each shape, with one bookie of ours to spare. The tests of a shape share its bookies, and leave them
 * as they were: running and writable.
 */
@RunWith(Parameterized.class)
public abstract class ShapeTest extends InteropTest {
    private static Cluster cluster;
    private static Shape has;

    @Parameter(0)
    public Protocol protocol;

    @Parameter(1)
    public Shape shape;

    @Parameters(name = "{0} {1}")
    public static List<Object[]> cases() {
        return cases(Protocol.values());
    }

    static List<Object[]> cases(Protocol... protocols) {
        List<Object[]> all = new ArrayList<>();
        for (Shape shape : Shape.chosen()) {
            for (Protocol protocol : protocols) {
                all.add(new Object[] {protocol, shape});
            }
        }
        return all;
    }

    /** Settings of our bookies that these tests want. */
    String[] options() {
        return new String[0];
    }

    @Before
    public final void startBookies() throws Throwable {
        if (has != shape) {
            endBookies();
            cluster = new Cluster(shape.walkeeper + 1, shape.java, options());
            cluster.before();
            has = shape;
        }
    }

    @AfterClass
    public static void endBookies() {
        has = null;
        if (cluster != null) {
            cluster.close();
            cluster = null;
        }
    }

    /** Nobody knows how it left them. */
    @Override
    void afterFailure() {
        endBookies();
    }

    @Override
    final Cluster cluster() {
        return cluster;
    }

    /** One that tests end, hang and ask; ours. */
    static Bookie first() {
        return cluster.bookies.get(0);
    }
}
