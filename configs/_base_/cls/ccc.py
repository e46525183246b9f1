# ImageNet -> CCC. The paper averages over runs of CCC that it does not name.
# Optimizer, learning rate and batch size are those of the paper's table of hyper-parameters,
# momentum and Nesterov as in the published code.
_base_ = ["./runtime.py", "./reservoir.py"]
data = dict(type="ccc", root="data/CCC", baseline=20, speed=1000, run_seed=43)
method = dict(optimizer=dict(type="SGD", lr=2.5e-4, momentum=0.9, nesterov=True))
stream = dict(type="ccc", batch_size=64, interval=6700, limit=80400)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source_images = dict(type="image_folder", root="data/imagenet/train", num_images=2000)
