# CIFAR-100 -> CIFAR-100-C, ResNeXt-29 (AugMix, as in RobustBench).
# Optimizer, learning rate and batch size are those of the paper's table of hyper-parameters.
_base_ = ["../_base_/cls/runtime.py", "../_base_/cls/reservoir.py"]
data = dict(type="cifar100c", root="data/CIFAR-100-C", severity=5)
model = dict(type="resnext29_augmix", checkpoint="checkpoints/cifar100_augmix_resnext.pt")
method = dict(optimizer=dict(type="Adam", lr=1e-3, betas=(0.9, 0.999)))
stream = dict(type="csc", rounds=20, batch_size=200)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source_images = dict(type="cifar100", root="data/cifar-100-binary", num_images=2000)

rows = dict(
    source=dict(),
    tent=dict(),
    # CoTTA's constants for this data; the paper's CoTTA* adapts affine parameters only.
    cotta=dict(method=dict(type="cotta_images", confidence=0.72, restore=0.01)),
    rotta=dict(),
    # The margins, and the weight of the regularizer, are of the repository that the paper uses.
    eta=dict(method=dict(d_margin=0.1)),
    # SGD as in the table; rate as for the others, momentum as in SAR's paper.
    sar=dict(method=dict(optimizer=dict(type="SGD", lr=1e-3, momentum=0.9))),
    rdumb=dict(method=dict(d_margin=0.4)),
    petta=dict(),
    eata=dict(method=dict(d_margin=0.1, fisher_alpha=1.0)),
    roid=dict(method=dict(prior_correction=True)),
)
