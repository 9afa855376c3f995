"""Types and names that all packages share: results, verdicts, records, schemas and message patterns. This
package imports only the standard library.
"""
