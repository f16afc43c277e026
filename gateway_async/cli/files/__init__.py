"""Files of rows: read with every problem named by its place, and written; any format alike."""
