_base_ = ["./pacs_resnet50_tent.py", "../../_base_/cls/reservoir.py"]
