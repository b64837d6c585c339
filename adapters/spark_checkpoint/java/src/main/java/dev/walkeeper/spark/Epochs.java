package dev.walkeeper.spark;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;

/**
 * The epochs that this process owns checkpoint directories by.
 *
 * <p>Spark copies the settings of a query's session into the configuration of its executors. So the epoch is a setting,
 * and what a process learns of it is kept for its file systems, which have no configuration of a query.
 */
final class Epochs {
  private static final String PREFIX = "spark.sql.streaming.walkeeper.epoch.";
  private static final ConcurrentMap<String, Long> KNOWN = new ConcurrentHashMap<>();

  private Epochs() {}

  /** This query owns the directory from now on. */
  static void owned(String gateways, String path, long epoch) {
    learn(gateways, path, epoch);
    scala.Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isDefined()) {
      session.get().conf().set(PREFIX + path, Long.toString(epoch));
    }
  }

  /** Of the nearest directory at or above {@code path}: the one of this query, else the last one of this process; 0. */
  static long of(String gateways, String path, Configuration conf) {
    for (String at = path; !at.isEmpty(); at = at.substring(0, Math.max(0, at.lastIndexOf('/')))) {
      String ofQuery = conf == null ? null : conf.get(PREFIX + at);
      if (ofQuery != null) {
        long epoch = Long.parseLong(ofQuery);
        learn(gateways, at, epoch);
        return epoch;
      }
      Long known = KNOWN.get(gateways + "\n" + at);
      if (known != null) {
        return known;
      }
    }
    return 0;
  }

  /** The directory is gone, and its owner with it: what is made there anew is nobody's until it is acquired. */
  static void forget(String gateways, String path) {
    String place = gateways + "\n" + path;
    KNOWN.keySet().removeIf(known -> known.equals(place) || known.startsWith(place + "/"));
  }

  private static void learn(String gateways, String path, long epoch) {
    KNOWN.merge(gateways + "\n" + path, epoch, Math::max);
  }
}
