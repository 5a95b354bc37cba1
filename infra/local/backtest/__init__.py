"""The same history under two policies, and decision by decision what differs.

Each policy has a world of its own (`sides`), in which a `book` is kept of what became of the
fleet. `compare` lays two books beside each other; `document`, `table` and `page` say what came
out, for programs, for a terminal and for a browser.
"""
