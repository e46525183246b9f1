# A small net with BatchNorm; its weights are in checkpoints/, reservoir train-digits made them.
_base_ = "../_base_/cls/digits.py"
model = dict(type="digits_convnet", pretrained=True)

rows = dict(
    source=dict(),
    norm=dict(),  # no parameter adapts, but BatchNorm takes the statistics of the batch
    # Alignment needs the statistics of the source; those of the batch align themselves.
    align=dict(statistics="running"),
    tent=dict(),
    # 32 views would take most of the time of all runs together; a mirrored digit is no digit.
    cotta=dict(method=dict(type="cotta_images", views=4, augment=dict(flip=0.0))),
    # Its statistics, and PeTTA's, follow the stream slowly: too slowly for visits of four batches,
    # unless each domain has its own.
    rotta=dict(method=dict(augment=dict(flip=0.0))),
    eta=dict(method=dict(d_margin=0.4)),  # all margins are EATA's for CIFAR-10
    cola=dict(method=dict(d_margin=0.4)),
    # The paper's exception for CIFAR is SGD; the rate is that of all others.
    sar=dict(method=dict(optimizer=dict(type="SGD", lr=1e-2, momentum=0.9))),
    # It resets every 1000 steps of much longer streams; here four times, as this stream has 480.
    rdumb=dict(method=dict(d_margin=0.4, reset_every=120)),
    petta=dict(method=dict(augment=dict(flip=0.0))),
    eata=dict(method=dict(d_margin=0.4, fisher_alpha=1.0)),
    roid=dict(method=dict(prior_correction=True)),
)
