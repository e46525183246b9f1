_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/domainnet126_resnet50.py"]
# Of the repository that the paper uses; the weight of the regulariser is EATA's for ImageNet.
method = dict(type="eata", d_margin=0.1, fisher_alpha=2000.0)
