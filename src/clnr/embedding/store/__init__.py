"""The folder that an embedding leaves: model, graph, vectors, exports."""
