# attnexp on a CPU:  docker build -t attnexp .
#                    docker run --rm -v "$PWD:/work" attnexp sweep study=blog data=contrast
FROM python:3.12-slim

# PyTorch without gigabytes of CUDA.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_NO_CACHE_DIR=1

# What is installed changes less often than the code: a layer of its own.
WORKDIR /source
COPY constraints.txt pyproject.toml ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    print(*project['dependencies'], *project['optional-dependencies']['baseline'], sep='\n')" \
    > requirements.txt && pip install -c constraints.txt -r requirements.txt
COPY README.md LICENSE ./
COPY attnexp attnexp
COPY conf conf
RUN pip install --no-deps . && rm -rf /source

# Results and caches lie in the mounted folder and outlive the container.
WORKDIR /work
ENV HF_HOME=/work/.cache/huggingface
ENTRYPOINT ["attnexp"]
CMD ["--help"]
