# Made from the synthesized template of the stack: go test ./limitertable -update.

terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "table_name" {
  description = "Name of the table."
  type        = string
  default     = "zae-limiter"
}

variable "policy_name_prefix" {
  description = "The policies are named this and acquire, admin, ...; by default the table's name and a hyphen."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "DynamoDB refuses to delete the table."
  type        = bool
  default     = false
}

resource "aws_dynamodb_table" "limiter" {
  name         = var.table_name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "PK"
  range_key    = "SK"

  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  deletion_protection_enabled = var.deletion_protection

  attribute {
    name = "PK"
    type = "S"
  }

  attribute {
    name = "SK"
    type = "S"
  }

  attribute {
    name = "GSI1PK"
    type = "S"
  }

  attribute {
    name = "GSI1SK"
    type = "S"
  }

  attribute {
    name = "GSI2PK"
    type = "S"
  }

  attribute {
    name = "GSI2SK"
    type = "S"
  }

  attribute {
    name = "GSI3PK"
    type = "S"
  }

  attribute {
    name = "GSI3SK"
    type = "S"
  }

  attribute {
    name = "GSI4PK"
    type = "S"
  }

  attribute {
    name = "GSI4SK"
    type = "S"
  }

  global_secondary_index {
    name            = "GSI1"
    hash_key        = "GSI1PK"
    range_key       = "GSI1SK"
    projection_type = "ALL"
  }

  global_secondary_index {
    name            = "GSI2"
    hash_key        = "GSI2PK"
    range_key       = "GSI2SK"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI3"
    hash_key        = "GSI3PK"
    range_key       = "GSI3SK"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI4"
    hash_key        = "GSI4PK"
    range_key       = "GSI4SK"
    projection_type = "KEYS_ONLY"
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  lifecycle {
    prevent_destroy = true
  }
}

locals {
  policies = {
    "acquire" = {
      description = "Acquire from every bucket of the limiter."
      document = {
        "Statement" : [
          {
            "Action" : "dynamodb:BatchGetItem",
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "*/BUCKET#*",
                  "*/ENTITY#*",
                  "*/RESOURCE#*",
                  "*/SYSTEM#"
                ]
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : [
              "dynamodb:ConditionCheckItem",
              "dynamodb:DeleteItem",
              "dynamodb:PutItem",
              "dynamodb:UpdateItem"
            ],
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "*/BUCKET#*"
                ]
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          }
        ],
        "Version" : "2012-10-17"
      }
    }
    "admin" = {
      description = "Change limits, entities and namespaces of the limiter, and read everything."
      document = {
        "Statement" : [
          {
            "Action" : [
              "dynamodb:BatchGetItem",
              "dynamodb:BatchWriteItem",
              "dynamodb:ConditionCheckItem",
              "dynamodb:DeleteItem",
              "dynamodb:DescribeTable",
              "dynamodb:DescribeTimeToLive",
              "dynamodb:GetItem",
              "dynamodb:PutItem",
              "dynamodb:UpdateItem"
            ],
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : "dynamodb:Query",
            "Effect" : "Allow",
            "Resource" : [
              "${aws_dynamodb_table.limiter.arn}",
              "${aws_dynamodb_table.limiter.arn}/index/GSI1",
              "${aws_dynamodb_table.limiter.arn}/index/GSI2",
              "${aws_dynamodb_table.limiter.arn}/index/GSI3",
              "${aws_dynamodb_table.limiter.arn}/index/GSI4"
            ]
          }
        ],
        "Version" : "2012-10-17"
      }
    }
    "read" = {
      description = "Read limits, buckets, usage and audit events of the limiter."
      document = {
        "Statement" : [
          {
            "Action" : [
              "dynamodb:BatchGetItem",
              "dynamodb:DescribeTable",
              "dynamodb:DescribeTimeToLive",
              "dynamodb:GetItem"
            ],
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : "dynamodb:Query",
            "Effect" : "Allow",
            "Resource" : [
              "${aws_dynamodb_table.limiter.arn}",
              "${aws_dynamodb_table.limiter.arn}/index/GSI1",
              "${aws_dynamodb_table.limiter.arn}/index/GSI2",
              "${aws_dynamodb_table.limiter.arn}/index/GSI3",
              "${aws_dynamodb_table.limiter.arn}/index/GSI4"
            ]
          }
        ],
        "Version" : "2012-10-17"
      }
    }
    "namespace-acquire" = {
      description = "Acquire within the namespace that the principal is tagged with."
      document = {
        "Statement" : [
          {
            "Action" : "dynamodb:BatchGetItem",
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/BUCKET#*",
                  "$${aws:PrincipalTag/zael_namespace_id}/ENTITY#*",
                  "$${aws:PrincipalTag/zael_namespace_id}/RESOURCE#*",
                  "$${aws:PrincipalTag/zael_namespace_id}/SYSTEM#",
                  "_/SYSTEM#"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : [
              "dynamodb:ConditionCheckItem",
              "dynamodb:DeleteItem",
              "dynamodb:PutItem",
              "dynamodb:UpdateItem"
            ],
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/BUCKET#*"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          }
        ],
        "Version" : "2012-10-17"
      }
    }
    "namespace-admin" = {
      description = "Change and read what is in the namespace that the principal is tagged with."
      document = {
        "Statement" : [
          {
            "Action" : [
              "dynamodb:BatchGetItem",
              "dynamodb:ConditionCheckItem"
            ],
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/*",
                  "_/SYSTEM#"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : [
              "dynamodb:BatchWriteItem",
              "dynamodb:DeleteItem",
              "dynamodb:GetItem",
              "dynamodb:PutItem",
              "dynamodb:UpdateItem"
            ],
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/*"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : "dynamodb:Query",
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/*",
                  "$${aws:PrincipalTag/zael_namespace_id}"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : [
              "${aws_dynamodb_table.limiter.arn}",
              "${aws_dynamodb_table.limiter.arn}/index/GSI1",
              "${aws_dynamodb_table.limiter.arn}/index/GSI2",
              "${aws_dynamodb_table.limiter.arn}/index/GSI3",
              "${aws_dynamodb_table.limiter.arn}/index/GSI4"
            ]
          }
        ],
        "Version" : "2012-10-17"
      }
    }
    "namespace-read" = {
      description = "Read what is in the namespace that the principal is tagged with."
      document = {
        "Statement" : [
          {
            "Action" : "dynamodb:BatchGetItem",
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/*",
                  "_/SYSTEM#"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : "dynamodb:GetItem",
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/*"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : "${aws_dynamodb_table.limiter.arn}"
          },
          {
            "Action" : "dynamodb:Query",
            "Condition" : {
              "ForAllValues:StringLike" : {
                "dynamodb:LeadingKeys" : [
                  "$${aws:PrincipalTag/zael_namespace_id}/*",
                  "$${aws:PrincipalTag/zael_namespace_id}"
                ]
              },
              "Null" : {
                "dynamodb:LeadingKeys" : "false"
              }
            },
            "Effect" : "Allow",
            "Resource" : [
              "${aws_dynamodb_table.limiter.arn}",
              "${aws_dynamodb_table.limiter.arn}/index/GSI1",
              "${aws_dynamodb_table.limiter.arn}/index/GSI2",
              "${aws_dynamodb_table.limiter.arn}/index/GSI3",
              "${aws_dynamodb_table.limiter.arn}/index/GSI4"
            ]
          }
        ],
        "Version" : "2012-10-17"
      }
    }
  }
}

resource "aws_iam_policy" "limiter" {
  for_each    = local.policies
  name        = "${coalesce(var.policy_name_prefix, "${var.table_name}-")}${each.key}"
  description = each.value.description
  policy      = jsonencode(each.value.document)
}

output "table_name" {
  value = aws_dynamodb_table.limiter.name
}

output "table_arn" {
  value = aws_dynamodb_table.limiter.arn
}

output "stream_arn" {
  value = aws_dynamodb_table.limiter.stream_arn
}

output "policy_arns" {
  value = { for name, policy in aws_iam_policy.limiter : name => policy.arn }
}
