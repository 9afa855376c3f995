# The test images: builds of torch × Python. 'nox -s docker' reads this file, with or without buildx; by hand, once it has
# laid out dist/docker:  docker buildx bake -f docker/docker-bake.hcl

variable "REGISTRY" {
  default = "conformance"
}

variable "REVISION" {
  default = "unknown"
}

variable "SOURCE" {
  default = "unknown"
}

group "default" {
  targets = ["torch-2-13-0-public-py311", "torch-2-13-0-fork-like-py311"]
}

group "all" {
  targets = [
    "torch-2-6-0-public-py311",
    "torch-2-6-0-fork-like-py311",
    "torch-2-6-0-public-py312",
    "torch-2-6-0-fork-like-py312",
    "torch-2-13-0-public-py311",
    "torch-2-13-0-fork-like-py311",
    "torch-2-13-0-public-py312",
    "torch-2-13-0-fork-like-py312",
  ]
}

target "image" {
  context    = "."
  dockerfile = "docker/Dockerfile"
  target     = "test"
  args = {
    REVISION = "${REVISION}"
    SOURCE   = "${SOURCE}"
  }
}

target "py311" {
  args = {
    BASE   = "python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b"
    PYTHON = "3.11"
  }
}

target "py312" {
  args = {
    BASE   = "python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254"
    PYTHON = "3.12"
  }
}

target "public" {
  args = {
    KIND = "public"
  }
}

target "fork-like" {
  args = {
    KIND = "fork-like"
  }
}

target "torch-2-6-0" {
  args = {
    TORCH = "2.6.0"
  }
}

target "torch-2-13-0" {
  args = {
    TORCH = "2.13.0"
  }
}

target "torch-2-6-0-public-py311" {
  inherits = ["image", "torch-2-6-0", "public", "py311"]
  tags     = ["${REGISTRY}:torch2.6.0-public-py311"]
}

target "torch-2-6-0-public-py312" {
  inherits = ["image", "torch-2-6-0", "public", "py312"]
  tags     = ["${REGISTRY}:torch2.6.0-public-py312"]
}

target "torch-2-6-0-fork-like-py311" {
  inherits = ["image", "torch-2-6-0", "fork-like", "py311"]
  tags     = ["${REGISTRY}:torch2.6.0-fork-like-py311"]
}

target "torch-2-6-0-fork-like-py312" {
  inherits = ["image", "torch-2-6-0", "fork-like", "py312"]
  tags     = ["${REGISTRY}:torch2.6.0-fork-like-py312"]
}

target "torch-2-13-0-public-py311" {
  inherits = ["image", "torch-2-13-0", "public", "py311"]
  tags     = ["${REGISTRY}:torch2.13.0-public-py311"]
}

target "torch-2-13-0-public-py312" {
  inherits = ["image", "torch-2-13-0", "public", "py312"]
  tags     = ["${REGISTRY}:torch2.13.0-public-py312"]
}

target "torch-2-13-0-fork-like-py311" {
  inherits = ["image", "torch-2-13-0", "fork-like", "py311"]
  tags     = ["${REGISTRY}:torch2.13.0-fork-like-py311"]
}

target "torch-2-13-0-fork-like-py312" {
  inherits = ["image", "torch-2-13-0", "fork-like", "py312"]
  tags     = ["${REGISTRY}:torch2.13.0-fork-like-py312"]
}
