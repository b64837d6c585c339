"""One file a question: the cells, the goals, and why a goal is missed where it is."""
