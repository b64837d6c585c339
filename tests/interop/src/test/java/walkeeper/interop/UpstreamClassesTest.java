package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import org.apache.bookkeeper.test.BookKeeperClusterTestCase;
import org.junit.Test;

/** upstream-classes.txt leaves out no class of BookKeeper's that has a cluster, and names none that is not there. */
public class UpstreamClassesTest {
    private static final Path LIST = Cluster.repository().resolve("tests/interop/upstream-classes.txt");

    private static Class<?> load(String name) {
        try {
            return Class.forName(name, false, UpstreamClassesTest.class.getClassLoader());
        } catch (ClassNotFoundException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    private static Set<String> withACluster() throws Exception {
        Class<?> any = load("org.apache.bookkeeper.client.BookKeeperTest");
        Path jar = Path.of(any.getProtectionDomain().getCodeSource().getLocation().toURI());
        try (JarFile classes = new JarFile(jar.toFile())) {
            return classes.stream().map(entry -> entry.getName().replace('/', '.'))
                    .filter(name -> name.endsWith(".class") && !name.contains("$"))
                    .map(name -> load(name.substring(0, name.length() - ".class".length())))
                    .filter(each -> BookKeeperClusterTestCase.class.isAssignableFrom(each))
                    .filter(each -> !Modifier.isAbstract(each.getModifiers()))
                    .map(Class::getSimpleName).collect(Collectors.toCollection(TreeSet::new));
        }
    }

    private static Set<String> listed() throws IOException {
        return Files.readAllLines(LIST).stream().filter(line -> !line.isBlank() && !line.startsWith("#"))
                .map(line -> line.split("[#\\s]")[0]).collect(Collectors.toCollection(TreeSet::new));
    }

    private static Set<String> without(Set<String> all, Set<String> some) {
        Set<String> rest = new TreeSet<>(all);
        rest.removeAll(some);
        return rest;
    }

    @Test
    public void everyClassThatHasAClusterIsListed() throws Exception {
        Set<String> found = withACluster();
        assertTrue("more than a hundred: " + found, found.size() > 100);
        assertEquals("not listed", Set.of(), without(found, listed()));
        assertEquals("not there", Set.of(), without(listed(), found));
    }
}
