_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/pacs_resnet50.py"]
# No source gives them for PACS: as for CIFAR-10, whose number of classes is near.
method = dict(type="eata", d_margin=0.4, fisher_alpha=1.0)
