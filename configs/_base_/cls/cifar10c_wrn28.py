# CIFAR-10 -> CIFAR-10-C, WideResNet-28-10 (RobustBench's "Standard"). SAR takes SGD.
# Optimizer, learning rate and batch size are those of the paper's table of hyper-parameters.
data = dict(type="cifar10c", root="data/CIFAR-10-C", severity=5)
model = dict(type="wrn28_10", checkpoint="checkpoints/cifar10_standard.pt")
method = dict(optimizer=dict(type="Adam", lr=1e-3, betas=(0.9, 0.999)))
stream = dict(type="csc", rounds=20, batch_size=200)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source_images = dict(type="cifar10", root="data/cifar-10-batches-bin", num_images=2000)
