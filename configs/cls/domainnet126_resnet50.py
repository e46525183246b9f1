# DomainNet-126, ResNet-50 trained on real images. The table's 2.5e4 is a misprint (see its text).
# Optimizer, learning rate and batch size are those of the paper's table of hyper-parameters.
_base_ = ["../_base_/cls/runtime.py", "../_base_/cls/reservoir.py"]
data = dict(
    type="domainnet126", root="data/DomainNet-126", domains=["clipart", "painting", "sketch"]
)
model = dict(type="resnet50_adacontrast", checkpoint="checkpoints/best_real_2020.pth")
# Momentum and Nesterov as in the published code.
method = dict(optimizer=dict(type="SGD", lr=2.5e-4, momentum=0.9, nesterov=True))
stream = dict(type="csc", rounds=20, batch_size=128)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source_images = dict(type="domainnet126", root="data/DomainNet-126", domain="real", num_images=2000)

rows = dict(
    source=dict(),
    tent=dict(),
    # Of the repository that the paper uses; the weight of the regularizer is EATA's for ImageNet.
    eata=dict(method=dict(d_margin=0.1, fisher_alpha=2000.0)),
)
