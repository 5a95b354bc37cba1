"""Recorded history, happening again in a world of its own under a policy of one's choice.

`reader` reads the recorded events once, for however many worlds they are to happen in: what
Nodes said of themselves becomes changes to Node objects, all else is told as it was recorded.
`filling` makes a world of the starting point, `course` lets the events happen there.

Recorded is what was told at the time, not what would have been told. What we did to the fleet
while it was recorded is taken off (our marks, our cordons); what people and other programs did in
answer to that cannot be, and happens again. Pods are those of the starting point: they move when
a node is emptied, but none come and go by themselves.
"""
