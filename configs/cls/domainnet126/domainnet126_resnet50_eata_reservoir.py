_base_ = ["./domainnet126_resnet50_eata.py", "../../_base_/cls/reservoir.py"]
