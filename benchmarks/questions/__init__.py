"""
One file a question. Each has `ROWS`, the numbers of the table's rows that it answers, and `measure(bench)`, which
answers them.
"""
