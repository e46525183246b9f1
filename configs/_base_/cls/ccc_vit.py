# ImageNet -> CCC, ViT-B/16. The paper averages over runs of CCC that it does not name.
# Optimizer, learning rate and batch size are those of the paper's table of hyper-parameters.
data = dict(type="ccc", root="data/CCC", baseline=20, speed=1000, run_seed=43)
model = dict(type="vit_b16", pretrained=True)
# Momentum and Nesterov as in the published code.
optimizer = dict(type="SGD", lr=1e-4, momentum=0.9, nesterov=True)
stream = dict(type="ccc", batch_size=64, interval=6700, limit=80400)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source = dict(type="image_folder", root="data/imagenet/train", num_images=2000)
