_base_ = ["./domainnet126_resnet50_tent.py", "../../_base_/cls/reservoir.py"]
