_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/domainnet126_resnet50.py"]
method = dict(type="tent")
