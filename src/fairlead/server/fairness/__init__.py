"""API Priority and Fairness: who waits when more is asked than one loop can do (KEP-1040, on one event loop).

flows.py     to which flow a request belongs, by the FlowSchemas
seats.py     how many requests of which level are carried out at once; what idle levels lend
queues.py    the queues of a level: shuffle sharding, and whose turn is next
fairness.py  the turn of a request, from the objects that are stored

Upstream many requests run at the same time on many cores; here they take turns on one. A request that waits in a queue
costs the others nothing, one that has begun takes its part of every millisecond: so there are fewer seats, and they are
lent from one request to the next rather than every ten seconds.
"""
