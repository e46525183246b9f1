# Experts that are watched and learn from each other: the default (docs/robust.md). Options beside
# those of ./published.py:
#
# guard.type="labels"       guard.every=16, .margin=None (from source images), .waver=0.05
#                           guard=None: no guard
# pooling.type="evidence"   pooling.n0: how many images of its own outweigh what others say
# trigger=None              dict(type="settled"): adapt only where it pays (docs/trigger.md)
reservoir = dict(preset="robust")
