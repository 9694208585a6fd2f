"""A Dask cluster that computes what is heavy: the driver asks, workers answer and keep nothing.

The driver stays one process with warehouse, recorder and journal. What goes out are groups of calls, texts or pairs as
plain data (`wire.py`), each to a worker that holds the very model or graph, by digest, and answers with the very code
(`wanted.py`). Dask sends what a dead worker had to another; `asking.py` keeps every worker busy and hands on each reply
as it arrives.
"""
