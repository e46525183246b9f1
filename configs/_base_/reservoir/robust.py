# The robust preset, which is the default: experts align feature moments (docs/alignment.md), have a
# guard and learn from each other (docs/robust.md). Options beyond those of ./published.py:
#
# alignment.type="moments"  alignment.reach=None (found by trials), .kappa=2.0, .layers="norms"
#                           alignment=None: no alignment
# pipeline.unfit="predict"  predict batches that fit no expert; "learn": adapt the nearest one
# pipeline.source="keep"    predict the source's domain with the source model; "adapt": adapt to it
# guard.type="labels"       guard.every=16, .margin=None (from source images), .waver=0.05
#                           guard=None: no guard
# pooling.type="evidence"   pooling.n0=8000: images at which an expert relies half on others
# trigger=None              dict(type="settled"): adapt only when it helps (docs/trigger.md)
reservoir = dict(preset="robust")
