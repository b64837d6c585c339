package walkeeper.interop;

/** What BookKeeper's client is told to speak: its default, or what Pulsar chooses. */
enum Protocol {
    V2,
    V3
}
