# CIFAR-100 -> CIFAR-100-C, ResNeXt-29 (AugMix, as in RobustBench). SAR takes SGD.
# Optimizer, learning rate and batch size are those of the paper's table of hyper-parameters.
data = dict(type="cifar100c", root="data/CIFAR-100-C", severity=5)
model = dict(type="resnext29_augmix", checkpoint="checkpoints/cifar100_augmix_resnext.pt")
method = dict(optimizer=dict(type="Adam", lr=1e-3, betas=(0.9, 0.999)))
stream = dict(type="csc", rounds=20, batch_size=200)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source_images = dict(type="cifar100", root="data/cifar-100-binary", num_images=2000)
