"""Run models and graphs on a Dask cluster: the driver sends requests, workers answer and store nothing.

The driver stays one process with warehouse, recorder and journal. It sends groups of calls, texts or pairs, pickled, each to a
worker that has exactly the required model or graph, by digest, and exactly the same code. Dask resends the groups of a dead
worker to another; `driver.py` keeps every worker busy and passes on each reply as it arrives.
"""
