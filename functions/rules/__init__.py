"""The rules: pure functions of facts, policy and the time given to them.

They import no client, read no clock and no setting, so that the same facts give the same
decisions in a test, in a replay, in a backtest and in the cluster.
"""
