"""The report of a replay: one HTML page that shows what happened to every node and why.

`recorder` listens while a scenario plays, `build` makes a model of what it heard (`model`), and
`page` puts the model and the page's own parts into one file that asks for nothing else.
"""
