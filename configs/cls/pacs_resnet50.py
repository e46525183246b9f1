# PACS, ResNet-50 trained on photographs.
# Optimizer, learning rate and batch size are those of the paper's table of hyper-parameters.
_base_ = ["../_base_/cls/runtime.py", "../_base_/cls/reservoir.py"]
data = dict(type="pacs", root="data/PACS", domains=["cartoon", "art_painting", "sketch"])
model = dict(
    type="timm", name="resnet50.tv_in1k", classes=7, checkpoint="checkpoints/pacs_photo.pt"
)
method = dict(optimizer=dict(type="Adam", lr=1e-3, betas=(0.9, 0.999)))
stream = dict(type="csc", rounds=20, batch_size=64)
# Clean images: for tau, for EATA's Fisher information, for prompts.
source_images = dict(
    type="image_folder", root="data/PACS/photo", resize=(224, 224), crop=None, num_images=2000
)

rows = dict(
    source=dict(),
    tent=dict(),
    # No source gives them for PACS: as for CIFAR-10, which has a similar number of classes.
    eata=dict(method=dict(d_margin=0.4, fisher_alpha=1.0)),
)
