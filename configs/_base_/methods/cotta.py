# CoTTA* with the paper's learning rate for SegFormer-B5: affine parameters, no restoration. Every
# other line is a default and may be left out.
method = dict(
    type="cotta",
    optimizer=dict(type="Adam", lr=7.5e-6),
    momentum=0.999,  # of the teacher
    confidence=0.69,  # of the anchor, above which one view is enough
    ratios=[0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0],
    flip=True,
    score="composite",  # or "mean" over the views, "single" view
    restore=0.0,  # 0.01 with params=dict(type="all", under="") is the full CoTTA
)
