"""Docker test images: built, inspected, and tried by running the suite inside them.

bake     docker/docker-bake.json ──► images, each with its arguments and tags
wheels   torch (public or relabelled) and the suite ──► dist/docker
engine   build by the command line, run by the SDK, bring results out
"""
