# ImageNet -> ImageNet-C. Optimizer, learning rate and batch size are those of the paper's table of
# hyper-parameters, momentum and Nesterov as in the published code.
_base_ = ["./runtime.py", "./reservoir.py"]
data = dict(
    type="imagenetc",
    root="data/ImageNet-C",
    severity=5,
    # The 5000 images of RobustBench (its repository has this list); None for all 50,000.
    image_list="data/imagenet_test_image_ids.txt",
)
method = dict(optimizer=dict(type="SGD", lr=2.5e-4, momentum=0.9, nesterov=True))
stream = dict(type="csc", rounds=20, batch_size=64)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source_images = dict(type="image_folder", root="data/imagenet/train", num_images=2000)
